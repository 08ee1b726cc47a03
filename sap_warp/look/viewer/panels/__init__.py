"""Widgets of the page: panels, controls, sliders of joints, dragging."""
