#!/bin/sh
# Makes the two databases of Temporal where they are missing and brings their schemas up to the version of this image.
set -eu

for database in temporal temporal_visibility; do
  folder=${database#temporal_}
  tool() { temporal-sql-tool --plugin postgres12 --ep postgres --port 5432 --user hearth --db "$database" "$@"; }
  tool create
  # A database that has a schema already refuses to begin at 0.0.
  tool setup-schema --version 0.0 || true
  tool update-schema --schema-dir "/etc/temporal/schema/postgresql/v12/$folder/versioned"
done
