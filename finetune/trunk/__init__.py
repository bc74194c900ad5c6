"""The part of a net that training does not change: found, frozen, run once a picture, and stored."""
