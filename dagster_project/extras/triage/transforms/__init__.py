"""What somebody who looks through new issues wants to know of each: what it says, what it lacks, what it repeats."""
