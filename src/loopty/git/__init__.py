"""Our private bare repository beside the user's: objects, packs, references and trees."""
