"""Estimators for scikit-learn; ``barymesh.sklearn`` has their names."""
