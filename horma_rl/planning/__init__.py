"""What a training run will need and take, from its config alone: memory per device and seconds per step. No torch."""
