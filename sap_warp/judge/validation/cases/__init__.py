"""The families of cases; each module registers its own."""
