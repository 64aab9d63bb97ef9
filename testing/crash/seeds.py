"""The seed of a crash test: the same in every run unless somebody asks for another. Knows no test."""

import random


def add_seed(parser):
    parser.add_argument("--seed", type=seed, default=1, help="a number, or `random`; printed, and 1 by default: CI is no matter of luck")


def seed(text):
    return random.SystemRandom().randrange(2**32) if text == "random" else int(text)
