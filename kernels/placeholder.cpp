// Keeps the folder a target until its first op.
