-- Faults that act: these are counted. A store also knows those that another one saw, so its own counts cannot be added up.
SELECT * FROM faults WHERE verdict = 'confirmed' AND echo_of IS NULL AND severity <> 'I'
