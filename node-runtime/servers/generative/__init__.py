"""The parts of the model server for generative models: images, audio, video and 3D scenes."""
