"""The operator's page: the clusters at a glance, drawn in the browser from the public REST API."""
