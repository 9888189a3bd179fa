"""What the files of a stopped broker say of its groups, with nothing lost in silence."""
