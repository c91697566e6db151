"""What scripts/oracle is made of: the sequence language, the virtual machine, the comparison and the report."""
