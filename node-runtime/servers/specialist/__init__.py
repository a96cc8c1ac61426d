"""The parts of the model server for specialists: embeddings, rerankers and classifiers."""
