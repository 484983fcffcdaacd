-- lamps: how each store saw a run end. What the others need is worked out of united views.
SELECT * FROM lamps WHERE lamp = 'execution'
