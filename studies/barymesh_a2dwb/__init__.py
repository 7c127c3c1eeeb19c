"""The paper's two experiments, run again: definitions, runs, claims checked on the data, figures, and a report."""
