"""What natural_images.py is made of: patches, what learns from them, pictures and tables."""
