"""Twenty prompts of mixed kind and length for comparisons with the reference model."""

PROMPTS = [
    "The capital of France is",
    "Once upon a time",
    "def fibonacci(n):\n    ",
    "1, 2, 3, 4,",
    "The three laws of thermodynamics state that",
    "import numpy as np\n\nx = np.",
    "Dear Sir or Madam,\n\nI am writing to",
    "Q: What is the boiling point of water?\nA:",
    "El perro corre por",
    "Die Hauptstadt von Deutschland ist",
    "SELECT name, age FROM users WHERE",
    "<html>\n<head>\n<title>",
    "To bake a simple loaf of bread you need",
    "In 1969, humans first",
    "The quick brown fox jumps over the lazy dog. The quick brown fox",
    "Translate to French: Good morning ->",
    "A list of prime numbers: 2, 3, 5, 7, 11,",
    "Il était une fois, dans une petite maison près de la forêt, une fille qui",
    "The mitochondria is the powerhouse of the cell. It produces energy in the form of",
    "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n",
]
