"""The outputs of benchmark tools that loopty reads, one file each."""
