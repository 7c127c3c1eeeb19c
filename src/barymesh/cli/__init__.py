"""The command line: commands, configuration files, exit codes and the doctor."""
