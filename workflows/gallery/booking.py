"""Saga: book a flight, a hotel and a car. If one of them fails, cancel those before it, the newest first."""

from __future__ import annotations

from pydantic import BaseModel

from engine import Failure, activity, compensate, workflow


class Trip(BaseModel):
    id: str
    traveller: str
    city: str


class SoldOut(Failure):
    """Nothing is left, and trying again won't help."""

    what: str


@activity
async def book(what: str, trip: Trip) -> str:
    """Book one part of the trip. Returns the booking's number."""
    raise NotImplementedError("call the booking system here")


@activity
async def cancel(booking: str) -> None:
    """Cancel a booking. Cancelling twice is harmless."""
    raise NotImplementedError("call the booking system here")


@workflow(idempotency_key=lambda trip: trip.id)
async def book_trip(trip: Trip) -> list[str]:
    """Book everything, or nothing."""
    bookings: list[str] = []
    for what in ("flight", "hotel", "car"):
        booking = await book(what, trip)
        compensate(cancel, booking)
        bookings.append(booking)
    return bookings
