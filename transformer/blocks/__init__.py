"""What `transformer.modules` is made of; read primitives, masks, positions first."""
