"""How several processes form one training."""
