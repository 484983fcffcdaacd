-- Acting faults, to be counted. A store also knows those that another one saw, so its own counts cannot be added up.
SELECT * FROM part_acting
