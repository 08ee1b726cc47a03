"""Stage 3: what the objective is made of in this step: contacts, terms of dofs, equations."""
