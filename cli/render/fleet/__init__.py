"""Text of the answers about a fleet."""

from .heading import fleet_heading as fleet_heading
