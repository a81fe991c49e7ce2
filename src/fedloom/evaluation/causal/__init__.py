"""How answers to do(T) are judged."""
