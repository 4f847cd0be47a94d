"""All attacks, in the order in which they are told."""

from __future__ import annotations

from loopty.attacks import (
    calling,
    exhausting,
    leaving,
    meddling,
    outliving,
    planting,
    reaching,
    reading,
    writing,
)
from loopty.attacks.attack import Attack

ATTACKS: tuple[Attack, ...] = (
    *writing.ATTACKS,
    *planting.ATTACKS,
    *reading.ATTACKS,
    *meddling.ATTACKS,
    *reaching.ATTACKS,
    *calling.ATTACKS,
    *outliving.ATTACKS,
    *exhausting.ATTACKS,
    *leaving.ATTACKS,
)
