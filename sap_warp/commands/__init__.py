"""Sub-commands of `sap-warp`, one module each: `add_parser` declares it and sets ``command`` to what runs it."""
