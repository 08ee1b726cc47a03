"""What people act with on the page: panels, controls, sliders of joints, dragging."""
