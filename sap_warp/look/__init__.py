"""Ways to look at a simulation: pictures, the page in the browser, signals over time and sensors."""
