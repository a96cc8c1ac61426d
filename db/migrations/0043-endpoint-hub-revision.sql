-- The commit that an endpoint serves, when it was imported from the hub; the repository is its base_model.
alter table endpoint add column hub_revision text;
update endpoint set hub_revision = hub_model.revision from hub_model where hub_model.endpoint_id = endpoint.id;
