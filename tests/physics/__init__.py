"""Tests of whole steps against closed forms and other engines."""
