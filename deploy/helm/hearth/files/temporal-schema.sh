#!/bin/sh
# Creates Temporal's two databases if they are missing, and migrates their schemas to the version of this image. Used by
# this chart and by docker-compose.yml, whose PostgreSQL is called `postgres`.
set -eu

for database in temporal temporal_visibility; do
  folder=${database#temporal_}
  tool() { temporal-sql-tool --plugin postgres12 --ep "${SQL_HOST:-postgres}" --port 5432 --user hearth --db "$database" "$@"; }
  tool create
  # Fails at version 0.0 if the database already has a schema.
  tool setup-schema --version 0.0 || true
  tool update-schema --schema-dir "/etc/temporal/schema/postgresql/v12/$folder/versioned"
done
