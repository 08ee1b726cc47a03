"""Motion without contact: mass matrix, bias, gravity compensation, drag."""
