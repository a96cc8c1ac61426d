"""The parts that the trainers of tables and series share."""
