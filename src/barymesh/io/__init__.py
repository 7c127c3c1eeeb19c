"""Files in, results out; every file is written whole or not at all."""
