"""What steps of the tests run. A replay couldn't repeat it, so the guard would name it in a workflow."""

from __future__ import annotations

import time


async def price_of(sku: str, times: int = 1) -> float:
    return _now() * 0 + len(sku) * times


def _now() -> float:
    return time.time()


class Shop:
    def __init__(self, surcharge: int) -> None:
        self.surcharge = surcharge

    def total(self, price: int) -> int:
        time.sleep(0)
        return price + self.surcharge
