"""Small changes of the product's code, each of which some unit test must notice."""
