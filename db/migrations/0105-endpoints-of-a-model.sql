-- Gateways search for models whose endpoints have all been deleted, to free their files on the nodes.
create index endpoint_of_version on endpoint (version_id);
