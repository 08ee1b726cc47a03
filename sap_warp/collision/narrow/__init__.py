"""The narrow phase: contact points, normals and depths of two shapes (GJK, EPA, clipping, closed forms)."""
