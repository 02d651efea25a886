#!/usr/bin/env python3
"""Trains the network of `./neural_layer digits FILE` and writes it, with images to try it on.

    pip install scikit-learn==1.9.1
    python3 digits.py > digits.txt

The images are scikit-learn's: 1797 handwritten digits of 8 x 8 pixels. A quarter of them, the
same number of each digit as far as possible, takes no part in the training; they go into the
file. digits.txt here is from scikit-learn 1.9.1 with NumPy 2.4.6 on an x86-64 processor. Other
versions may train a slightly different network.
"""

import sys

try:
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier
except ImportError as error:
    sys.exit(f"digits.py: scikit-learn is missing ({error}): pip install scikit-learn==1.9.1")

SEED = 7
HIDDEN = 48

HEAD = """\
# A network that reads handwritten digits, and images that it has not seen in training.
# Written by digits.py for neural_layer.cu.
#
# The images are from "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak
# (UCI Machine Learning Repository, 1998, https://archive.ics.uci.edu/dataset/80), licence CC BY 4.0
# (https://creativecommons.org/licenses/by/4.0/), in the copy that comes with scikit-learn
# (BSD-3-Clause). Changed: a quarter of them was picked. The weights were trained on the others.
#
# layers: inputs, hidden outputs, outputs. A line of a layer is one output: its weights, its bias.
# A line of the images: 8 rows of 8 pixels, 0 is paper and 16 is ink, and which digit it is.
"""


def main():
    digits = load_digits()
    train, test = train_test_split(np.arange(len(digits.target)), test_size=0.25,
                                   random_state=SEED, stratify=digits.target)
    # Given ten yes-or-no answers an image, and not one digit, the network ends in ten sigmoids.
    answers = np.eye(10, dtype=int)[digits.target]
    network = MLPClassifier((HIDDEN,), activation="logistic", alpha=0.01, learning_rate_init=0.01,
                            max_iter=1000, random_state=SEED)
    network.fit(digits.data[train] / 16, answers[train])

    # C++ wants the weights as out x in, and scikit-learn has them as in x out.
    lines = [f"layers {len(digits.data[0])} {HIDDEN} {len(answers[0])}"]
    for weights, bias in zip(network.coefs_, network.intercepts_):
        lines.append(f"layer {weights.shape[1]}")
        lines += [" ".join(f"{value:.4f}" for value in output)
                  for output in np.vstack([weights, bias]).T]
    lines.append(f"images {len(test)}")
    lines += [" ".join(f"{value:.0f}" for value in (*digits.data[i], digits.target[i]))
              for i in test]
    lines.append("end")
    sys.stdout.write(HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
