-- The number of the newest migration that a process must know to work on this database, and the version that brought it.
-- A migration that removes something that earlier versions need (CONTRIBUTING.md, "Migrations") raises both.
create table schema_compatibility (
  id integer primary key default 1 check (id = 1),
  oldest_migration integer not null,
  oldest_version text not null
);
insert into schema_compatibility (oldest_migration, oldest_version) values (35, '0.12.0');
