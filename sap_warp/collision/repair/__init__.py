"""Repair of contacts: missing normals, internal edges of meshes, ghost contacts between coplanar boxes."""
