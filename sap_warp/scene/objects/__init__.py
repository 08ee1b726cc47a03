"""What a scene is made of: bodies, joints, materials, fields, terrain and their control."""
