-- faults: read in each store of them, where only their number and order is wanted. They are few, whatever logs say.
SELECT * FROM faults WHERE verdict = 'confirmed' AND echo_of IS NULL AND severity <> 'I'
