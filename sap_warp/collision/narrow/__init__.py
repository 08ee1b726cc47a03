"""Where two shapes meet: contact points, normals and depths."""
