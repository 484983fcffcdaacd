"""Reports: what a run or a candidate is, as of one moment, for people who were not there.

moment.py       a reader whose every answer is of one moment
subject.py      which run or candidate the user means
model.py        a document: sections, tables, plots, with outside text told apart from ours
measured.py record.py faults.py compared.py gates.py origin.py    sections, each out of the public views
document.py     the sections of a run's report, and of a candidate's
markdown.py html.py svg.py    a document as text
tables.py chains.py bundle.py statement.py    an evidence bundle: tables, the ledger's chain, files, hashes
container.py checking.py      a bundle read back, and verified without a store
"""
