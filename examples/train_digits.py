"""A private classifier of scikit-learn's digits in ten lines: fit, ask, certify.

1,400 little pictures, epsilon 8. Run: python examples/train_digits.py [DIRECTORY]
Then check what it promises: discreet verify DIRECTORY/digits-certificate.json
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from discreet import DPClassifier
from discreet.privacy.certificate import write_certificate

TRAINED = 1400
place = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
place.mkdir(parents=True, exist_ok=True)

x, y = load_digits(return_X_y=True)
model = DPClassifier(
    epsilon=8,
    delta="1e-5",
    classes=range(10),  # declared: the labels of private records must not name them
    scale=16,  # a public constant: pixels are 0 to 16
    inputs=(8, 8),  # pictures: the model learns from their scattering; settings follow by a rule
)
model.fit(x[:TRAINED], y[:TRAINED])

print(f"{model.n_iter_} steps with noise {model.plan_.noise_multiplier:.2f}: epsilon {model.plan_.claim:.3f} of 8")
majority = np.bincount(y[TRAINED:]).max() / len(y[TRAINED:])
print(f"accuracy on digits it has not seen: {model.score(x[TRAINED:], y[TRAINED:]):.1%} (majority {majority:.1%})")
write_certificate(model.certificate(), place / "digits-certificate.json")
print(f"certificate: {place / 'digits-certificate.json'}")
