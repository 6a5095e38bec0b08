"""The operator's page: an overview of the clusters, drawn in the browser from the public REST API."""
