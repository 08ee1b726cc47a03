"""What tests share: models, scene files, reference calculations."""
